// Reads a variable by name: its value, quality and time.
//
//     mono live_reading.exe [URL [NAME]]

using System;
using Trunkline;

static class LiveReading
{
    static int Main(string[] arguments)
    {
        var url = arguments.Length > 0 ? arguments[0] : "tl:///";
        var name = arguments.Length > 1 ? arguments[1] : "boiler/level";
        try
        {
            using (var client = Client.Connect(url, 5000))
            using (var readings = new Readings())
            {
                var level = client.Open(name, 2000);
                client.Read(new[] { level }, readings, 2000);
                var reading = readings[0];
                Console.WriteLine("{0} = {1}, quality 0x{2:x}, update {3}", name, readings.Text(0), reading.Quality, reading.Sequence);
            }
            return 0;
        }
        catch (TrunklineException error)
        {
            Console.Error.WriteLine("{0}: {1}", error.Name, error.Message);
            return 1;
        }
    }
}
