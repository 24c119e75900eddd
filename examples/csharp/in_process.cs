// Hosts variables in this program, in a control loop, and lets other programs read them.
//
//     mono in_process.exe [STEPS]

using System;
using System.Globalization;
using Trunkline;

static class InProcess
{
    const string Configuration = @"
[engine]
listen = [""127.0.0.1:0""]

[library]
name = ""loop""

[[variable]]
name = ""level""
type = ""f64""
units = ""%""

[[variable]]
name = ""setpoint""
type = ""f64""
range = [0, 100]
initial = 50
";

    static int Main(string[] arguments)
    {
        var steps = arguments.Length > 0 ? int.Parse(arguments[0]) : 1000;
        try
        {
            using (var engine = Engine.Start(Configuration))
            using (var level = engine.Variable("loop/level"))
            using (var setpoint = engine.Variable("loop/setpoint"))
            {
                Console.WriteLine("other programs reach the variables at {0}", engine.Url);
                var value = 0.0;
                for (var step = 0; step < steps; step++)
                {
                    value += (setpoint.Value - value) / 10.0;
                    level.Value = value;
                }
                Console.WriteLine("level {0} after {1} steps", value.ToString("F1", CultureInfo.InvariantCulture), steps);
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
