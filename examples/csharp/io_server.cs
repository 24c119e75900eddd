// An I/O server: this program is the source of the variables with `source = "tank:level"` and
// `source = "tank:setpoint"`. The device is a tank whose level follows a setpoint.
//
//     mono io_server.exe [URL [ORDERS]]
//
// With ORDERS, the program ends after this number of orders.

using System;
using Trunkline;

static class IoServer
{
    const uint Level = 0, Setpoint = 1;

    static int Main(string[] arguments)
    {
        var url = arguments.Length > 0 ? arguments[0] : "tl:///";
        var ordersLeft = arguments.Length > 1 ? int.Parse(arguments[1]) : -1;
        var items = new[] { Level, Setpoint };
        var values = new[] { 20.0, 50.0 };
        try
        {
            using (var provider = Provider.Start(url, "tank", new[] { "level", "setpoint" }, 2000))
            {
                while (ordersLeft != 0)
                {
                    values[Level] += (values[Setpoint] - values[Level]) / 10.0;
                    provider.Publish(items, values);
                    // Waits 100 ms for an order, which is also the time between two measurements.
                    Order order;
                    if (!provider.Next(out order, 100))
                    {
                        continue;
                    }
                    if (order.Item == Setpoint && order.Value >= 0 && order.Value <= 100)
                    {
                        // The device stores whole numbers; the client sees what the device has now.
                        values[Setpoint] = Math.Round(order.Value);
                        provider.Accept(order, values[Setpoint]);
                    }
                    else
                    {
                        provider.Refuse(order, order.Item == Setpoint ? "the setpoint must be from 0 to 100" : "the level is an input");
                    }
                    ordersLeft -= ordersLeft > 0 ? 1 : 0;
                }
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
