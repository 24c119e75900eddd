//! The documented sequence of flow control, acknowledgement and reconnection, step by step.

use crate::rig::{World, ms};

/// Behaviour: NS-61, NS-62, NS-63, NS-67, NS-68.
#[test]
fn thirteen_steps_of_flow_control() {
    for writer_dials in [true, false] {
        let mut world = World::connected(5, 5, writer_dials);
        let sut = &mut world;

        // 1. The program writes 3.
        assert!(sut.write(3));
        assert_eq!(sut.fills(), (3, 0));
        // 2. They are sent, and kept; 2 more may be sent.
        sut.pump();
        assert_eq!((sut.fills(), sut.may_send()), ((3, 0), 2));
        // 3. The reader's end has them.
        sut.now = sut.now.saturating_add(ms(1));
        sut.deliver();
        assert_eq!(sut.fills(), (3, 3));
        // 4. The program writes 2 before it learns of that.
        assert!(sut.write(2));
        assert_eq!(sut.fills(), (5, 3));
        // 5. The acknowledgement of 3 comes.
        sut.pump_reader();
        sut.now = sut.now.saturating_add(ms(1));
        sut.deliver();
        assert_eq!((sut.fills(), sut.may_send()), ((2, 3), 2));
        // 6. The 2 are sent, and lost in an outage.
        sut.pump();
        assert_eq!((sut.fills(), sut.may_send()), ((2, 3), 0));
        sut.cut();
        assert_eq!(sut.fills(), (2, 3));
        assert_eq!(sut.writer.link.disconnections(), 1);
        assert_eq!(sut.reader.link.disconnections(), 1);
        // 7. Writing 4 blocks: 3 are free. This is not an error.
        assert!(!sut.write(4));
        assert_eq!(sut.fills(), (2, 3));
        assert_eq!(sut.writer.link.fault(), None);
        // 8. The reconnection finds that 2 are missing, and they are sent again.
        sut.heal();
        sut.run(ms(150));
        assert!(sut.writer.link.is_connected() && sut.reader.link.is_connected());
        // 9. The reader's buffer is full.
        assert_eq!((sut.reader.fill(), sut.may_send()), (5, 0));
        // 10. They are acknowledged, and the program reads 2.
        assert!(sut.read(2));
        sut.run(ms(2));
        // 11. The writer's buffer is empty.
        assert_eq!(sut.writer.fill(), 0);
        // 12. The reader's has 3, and there is credit for 2.
        assert_eq!((sut.reader.fill(), sut.may_send()), (3, 2));
        // 13. The write that blocked completes, and 2 of the 4 may be sent.
        assert!(sut.write(4));
        assert_eq!((sut.fills(), sut.may_send()), ((4, 3), 2));
        sut.pump();
        assert_eq!((sut.writer.fill(), sut.may_send()), (4, 0));
        // Everything arrives in order, once.
        assert!(sut.read(3));
        sut.run(ms(5));
        assert!(sut.read(4));
        assert_eq!(sut.reader.next, 9);
    }
}
